"""Measurement of binary codes on a user's vectors.

`audit` is the measurement behind the command ``skhash audit``. Files import only those
before them in this list: `timing` times, `rows` draws, `measure` and `peers` measure,
`evidence` looks at a sample of queries, `growth` at growing databases, `choices`
recommends, `chart` draws, `texts` and `page` show, `result` holds it all, and `run`
runs.
"""

from skhash.auditing.result import AuditResult
from skhash.auditing.run import audit

__all__ = ["AuditResult", "audit"]
