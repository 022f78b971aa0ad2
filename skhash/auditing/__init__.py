"""Binary codes of the user's own vectors, measured before they commit to one.

`audit` is the measurement behind the command ``skhash audit``. Files import only those
before them in this list: `data` draws rows, `measure` and `peers` measure, `result`
recommends, `evidence` looks at some queries, `texts` and `chart` say and draw, `page`
shows, `report` is the result with all of it, and `run` runs.
"""

from skhash.auditing.report import AuditResult
from skhash.auditing.run import audit

__all__ = ["AuditResult", "audit"]
