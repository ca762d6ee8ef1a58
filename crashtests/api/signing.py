"""Signatures on thinking blocks, made and checked the way the API ties a block to its conversation.

The API binds every thinking block to what the model had before it when it thought: `system`, `tools` and all
earlier messages ([D] build-with-claude/preserved-thinking). So a replayed signature proves that a history
only ever grew, which makes it the sharpest witness there is that a crash and a resume altered nothing.

A signature reads `model:k/n:before:bindings:seal`. Its block is the k-th of the n thinking blocks of a response;
`before` is the seal of the thinking block that preceded it in the conversation; the bindings are digests of `system`,
`tools` and the messages, one by one, so that a mismatch can say what was changed; `seal` authenticates all of that and
the text of the block itself. A seal that does not hold is F2; one that holds, on a block that stands elsewhere, is F3.

What is covered are values, not spelling:

* key order, JSON formatting and `cache_control` do not matter;
* string content is one text block, and neighbouring messages of one role are one turn, as the API reads them;
* blank text is left out: the API emits it but will not take it back, so a harness has to drop it;
* thinking blocks are no part of the messages but a chain of their own. The chain may lose blocks at its start
  or its end, or vanish (the API calls neither an edit); a gap in the middle, or a block put back, breaks it;
* a deferred tool counts from where the conversation first refers to it; until then adding one is no edit.

A block signed for another model is one this model cannot read: the API drops it without an error, here it is
skipped. Nothing is remembered between calls: processes that share a key agree.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from crashtests.api.vocabulary import THINKING_TYPES, Body, JsonBlock, content_blocks, entries, is_blank

_BOUND = ("`system`", "`tools`", "a message before it")
_NOTHING_BEFORE = "-"
_REDACTED_MARK = "|"
_DIGITS = 16

# What is not JSON is refused by rule A9; here it only has to be written the same way each time.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode


class Fault(NamedTuple):
    """What is wrong with one thinking block.

    `invalid`: the block is not one that was ever signed (rule F2). Otherwise it is genuine, but stands in
    another conversation than the one it was made in (rule F3).
    """

    invalid: bool
    says: str


class Signature(NamedTuple):
    """A signature taken apart; nothing in it is verified yet."""

    model: str
    place: str
    before: str
    bindings: str
    seal: str

    def __str__(self) -> str:
        return ":".join(self)

    @classmethod
    def of(cls, block: JsonBlock) -> Signature | None:
        """The signature a thinking or redacted_thinking block carries; None if it was never one of ours."""
        return cls.parse(_text_and_signature(block)[1])

    @classmethod
    def parse(cls, written: object) -> Signature | None:
        parts = written.rsplit(":", 4) if isinstance(written, str) else ()
        return cls(*parts) if len(parts) == 5 else None


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs the thinking blocks of responses, and finds what is wrong with those of a request."""

    key: bytes = b"crashtests"

    def sign(self, request: Body, earlier_content: Iterable[JsonBlock], thinking: str, *, total: int = 0) -> str:
        """The signature of one thinking block of the response to `request`.

        `earlier_content` are the blocks of that response before this one, already signed. `total` is how many
        thinking blocks the response will have; without it, this one is taken for the last. `signed` counts
        for you.
        """
        prefix = _Prefix(request)
        place = 1
        for block in earlier_content:
            prefix.add("assistant", block)
            place += block.get("type") in THINKING_TYPES
        return str(self._signature(prefix, "thinking", thinking, f"{place}/{max(total, place)}"))

    def signed(self, request: Body, content: Sequence[JsonBlock]) -> list[dict[str, Any]]:
        """A copy of the content of a response to `request` with every thinking block signed.

        A redacted_thinking block carries its signature at the end of its `data`. Other blocks are copied as
        they are.
        """
        prefix = _Prefix(request)
        total = sum(block.get("type") in THINKING_TYPES for block in content)
        place = 0
        copies = []
        for block in content:
            copy = dict(block)
            if copy.get("type") == "thinking":
                place += 1
                signature = self._signature(prefix, "thinking", copy.get("thinking", ""), f"{place}/{total}")
                copy["signature"] = str(signature)
            elif copy.get("type") == "redacted_thinking":
                place += 1
                data = copy.get("data", "")
                signature = self._signature(prefix, "redacted_thinking", data, f"{place}/{total}")
                copy["data"] = f"{data}{_REDACTED_MARK}{signature}"
            prefix.add("assistant", copy)
            copies.append(copy)
        return copies

    def faults(self, request: Body) -> Iterator[Fault]:
        """What is wrong with the thinking blocks of a request, in the order they stand in.

        A block without a signature is passed over; that it has none is for rule F2 to say.
        """
        prefix = _Prefix(request, with_messages=False)
        for i, message in enumerate(entries(request.get("messages"))):
            role = str(message.get("role"))
            for j, block in enumerate(content_blocks(message.get("content"))):
                if role == "assistant" and block.get("type") in THINKING_TYPES:
                    yield from self._faults_of(block, prefix, f"messages.{i}.content.{j}")
                prefix.add(role, block)

    def _signature(self, prefix: _Prefix, kind: str, text: str, place: str) -> Signature:
        before, bindings = prefix.before or _NOTHING_BEFORE, "-".join(prefix.bindings())
        seal = self._seal(prefix.model, place, before, bindings, kind, text)
        return Signature(prefix.model, place, before, bindings, seal)

    def _faults_of(self, block: JsonBlock, prefix: _Prefix, where: str) -> Iterator[Fault]:
        kind = str(block.get("type"))
        text, written = _text_and_signature(block)
        if kind == "thinking" and not (written and isinstance(written, str)):
            return
        signature = Signature.parse(written)
        if signature is None or signature.seal != self._seal(*signature[:4], kind, text):
            yield Fault(True, f"{where}: signature {written!r} was not made for this `{kind}` block")
            return
        if signature.model != prefix.model:
            return  # F4: not readable by this model, dropped without an error
        pairs = zip(_BOUND, signature.bindings.split("-"), prefix.bindings(), strict=True)
        if changed := [name for name, then, now in pairs if then != now]:
            yield Fault(False, f"{where}: bound to a different conversation, changed since: {', '.join(changed)}")
        if prefix.before not in (None, signature.before):
            yield Fault(False, f"{where}: the thinking block before it is not the one the model had before it")

    def _seal(self, *parts: str) -> str:
        # A tuple of strings has one repr, and no two have the same.
        return hmac.digest(self.key, repr(parts).encode(), "sha256").hex()[:_DIGITS]


class _Prefix:
    """What a thinking block is bound to: everything before it, taken in block by block.

    One pass serves every thinking block of a request, so that judging costs the same per message however long the
    conversation is.
    """

    __slots__ = ("_deferred", "_hash", "_new", "_role", "before", "model", "system", "tools")

    def __init__(self, request: Body, *, with_messages: bool = True) -> None:
        tools = entries(request.get("tools"))
        self.model = str(request.get("model"))
        self.system = _digest([_bare(block) for block in content_blocks(request.get("system"))])
        self.tools = _digest([_bare(tool) for tool in tools if tool.get("defer_loading") is not True])
        self.before: str | None = None
        self._deferred = {str(tool.get("name")): tool for tool in tools if tool.get("defer_loading") is True}
        self._hash = hashlib.sha256()
        self._new: list[object] = []
        self._role = ""
        for message in entries(request.get("messages")) if with_messages else ():
            for block in content_blocks(message.get("content")):
                self.add(str(message.get("role")), block)

    def add(self, role: str, block: JsonBlock) -> None:
        """Take in the next block of the conversation."""
        kind = block.get("type")
        if kind in THINKING_TYPES:
            signature = Signature.of(block)
            if signature is None or signature.model == self.model:
                self.before = signature and signature.seal
            return
        if kind == "text" and is_blank(block.get("text")):
            return
        if role != self._role:
            # Only with a block to say: a message left with nothing but blanks and thinking is no turn.
            self._role = role
            self._new.append(role)
        self._new.append(_bare(block))
        for name in _references(block) if self._deferred else ():
            if name in self._deferred:
                self._new.append(_bare(self._deferred.pop(name)))

    def bindings(self) -> tuple[str, str, str]:
        """Digests of `system`, `tools` and the messages so far."""
        if self._new:
            # Without the brackets, so that it makes no difference in how many pieces the same blocks were taken in.
            self._hash.update(_canonical(self._new)[1:-1].encode() + b",")
            self._new = []
        return self.system, self.tools, self._hash.hexdigest()[:_DIGITS]


def _text_and_signature(block: JsonBlock) -> tuple[str, object]:
    if block.get("type") == "thinking":
        return str(block.get("thinking")), block.get("signature")
    text, _, signature = str(block.get("data")).rpartition(_REDACTED_MARK)
    return text, signature


def _bare(block: JsonBlock) -> JsonBlock:
    """The block without cache markers. In a tool's `input`, `cache_control` would be data: that is left alone."""
    nested = block.get("content")
    if "cache_control" not in block and not isinstance(nested, list):
        return block
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(nested, list):
        bare["content"] = [_bare(inner) if isinstance(inner, dict) else inner for inner in nested]
    return bare


def _digest(value: object) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:_DIGITS]


def _references(block: JsonBlock) -> Iterator[str]:
    """The names of tools that a block refers to: a call, or what a tool search found."""
    if block.get("type") == "tool_use":
        yield str(block.get("name"))
    found = block.get("content")
    if isinstance(found, dict):
        found = found.get("tool_references")
    for entry in entries(found):
        if entry.get("type") == "tool_reference":
            yield str(entry.get("tool_name"))
