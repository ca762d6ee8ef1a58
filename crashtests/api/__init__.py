"""The acceptance rules of the Messages API, as an oracle: `judge(request)` says what the API would refuse,
and why.

Needs nothing but the standard library, so that a forked child can judge every request it makes.
"""

from crashtests.api.rules import RULES, judge
from crashtests.api.signing import Signer
from crashtests.api.table import Rule, Violation, error_body

__all__ = ["RULES", "Rule", "Signer", "Violation", "error_body", "judge"]
