"""What binary codes would cost on the user's own vectors, measured before they commit.

`audit` is the measurement behind the command ``skhash audit``: methods times lengths,
each fitted on one part of the data and searched with held-out queries, into one result
object.
"""

from skhash._audit._result import AuditResult
from skhash._audit._run import audit

__all__ = ["AuditResult", "audit"]
