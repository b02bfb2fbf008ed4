"""Attackers who know the defence, class by class, each with a harmless twin (issue 11).

`python -m tests.security adaptive` prints what came of them; `--full` with every answerer.
"""
