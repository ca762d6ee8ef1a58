"""The lists of the API rules against the types of the SDK, so that an upgrade fails loudly."""

from __future__ import annotations

from typing import Any, get_args

from typing_extensions import get_type_hints

from crashtests.api import vocabulary


def _literal(model: Any, field: str = "type") -> tuple[str, ...]:
    hint = get_type_hints(model)[field]
    return tuple(arg for arg in get_args(hint) if isinstance(arg, str))


def _keys_by_type(union: Any) -> dict[str, frozenset[str]]:
    return {kind: frozenset(get_type_hints(member)) for member in get_args(union) for kind in _literal(member)}


def test_our_lists_are_those_of_the_sdk() -> None:
    """An SDK that knows other blocks, keys or stop reasons than the rules do fails here, so that they are updated."""
    import anthropic.types as sdk
    from anthropic.types.message_create_params import MessageCreateParamsBase
    from anthropic.types.tool_result_block_param import Content as NestedContent

    theirs = {
        "content blocks": _keys_by_type(sdk.ContentBlockParam),
        "blocks in a tool_result": _keys_by_type(NestedContent),
        "tool_choice": _keys_by_type(sdk.ToolChoiceParam),
        "thinking": _keys_by_type(sdk.ThinkingConfigParam),
        "a custom tool": frozenset(get_type_hints(sdk.ToolParam)),
        "stop reasons": set(get_args(sdk.StopReason)),
        "roles": {role for member in get_args(sdk.MessageParam) for role in _literal(member, "role")},
        # The SDK sends these two as headers, and `stream` is in the types of the two kinds of call.
        "the body": frozenset(get_type_hints(MessageCreateParamsBase)) - {"user_profile_id", "workspace_id"}
        | {"stream"},
    }
    ours = {
        "content blocks": vocabulary.BLOCK_KEYS,
        "blocks in a tool_result": vocabulary.NESTED_KEYS,
        "tool_choice": vocabulary.TOOL_CHOICE_KEYS,
        "thinking": vocabulary.THINKING_KEYS,
        "a custom tool": vocabulary.CUSTOM_TOOL_KEYS,
        "stop reasons": set(vocabulary.STOP_REASONS),
        "roles": set(vocabulary.ROLES),
        "the body": vocabulary.TOP_LEVEL_KEYS,
    }

    assert theirs == ours


def test_a_response_block_can_be_sent_back_as_it_is() -> None:
    """Every key that the SDK's response blocks have is one that a request may send back."""
    import anthropic.types as sdk

    members = get_args(get_args(sdk.ContentBlock)[0])
    unknown = {
        kind: set(member.model_fields) - vocabulary.BLOCK_KEYS[kind]
        for member in members
        for kind in get_args(member.model_fields["type"].annotation)
    }

    assert {kind: set() for kind in unknown} == unknown
