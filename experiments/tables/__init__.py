"""Tables: pipelines x test sets x seeds, next to a paper's figures.

definition.py    the file of a table, and the table as a record
steps.py         the commands that make the models of its rows
making.py        runs these steps
cells.py         one run for each pipeline and test set, measured
document.py      the table as a document and on the terminal
records.py       records of tables, which docs/ is compared with
command.py       python -m experiments NAME
"""
