"""Which of two pipelines is better, without labelled questions: where they disagree, a person judges.

record.py                a comparison: questions by how much two rankings differ, judgements, the sign test
comparison_files.py      comparisons as folders: made, judged by several visitors, ended, removed
judged_sets.py           test sets that people judge: on the search page and in comparisons
"""
