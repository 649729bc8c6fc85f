"""Which of two pipelines is better, without labelled questions: where they disagree, a person judges.

disagreement.py          questions through both pipelines, sorted by how much the rankings differ
record.py                a comparison: its questions, the judgements so far, the sign test
comparison_files.py      comparisons as folders: made, judged by several visitors, ended, removed
"""
