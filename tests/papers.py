"""A paper as text, for tests of its analysis."""

from __future__ import annotations

SECRET = "Zanzibar"  # is in the paper, and must be in no log and no error

PAPER = f"""[PAGE 1]
Sluices in Practice
Ann Abel, University of Things, ann@things.test
Abstract
Irrigation fails when too many gates open at the same time. We propose a sluice that counts what
flows and closes before the canal runs dry. On twelve canals near {SECRET} it saved a third of
the water without any harvest being lost.
Keywords: irrigation, sluice gates; flow control
1 Introduction
Water is scarce in many regions where farming depends on canals and gates. Farmers open their
gates when they see water, which is exactly when their neighbours open theirs as well. A canal
that feeds forty farms can run dry within an hour when nobody coordinates the gates.
Figure 1. A canal with forty gates, seen from above by a drone in the summer of last year.
[PAGE 2]
2 Method
Our sluice measures the flow of water through each gate and keeps the sum of all open gates below
the supply of the canal. This paper introduces a rule that reserves part of the flow for urgent
need, such as seedlings in a drought. The rule needs no computer at the gates and no network.
3 Results
The sluice saved a third of the water on every canal we measured over two growing seasons.
No harvest was lost, and the reserve was used on nine days out of two hundred and forty days.
Farmers who distrusted the counting at first asked to keep the sluice after the trial had ended.
The largest canal profited most because its gates had been opened at the same hours every day.
References
[1] B. Baker. Gates. Journal of Canals, 2001.
[2] C. Cole. Water. Journal of Canals, 2002.
"""
