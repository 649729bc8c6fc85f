"""Objectives of retrievers, one file each: how a link or a text becomes a training pair.

HLP (Zhou et al. 2022)     dual-link, co-mention, and hlp: both
its rivals                 ict, wlp, bfs (Lee et al. 2019; Chang et al. 2020), as HLP's figure 1 has them
"""
