"""The pages: layout only, which service is asked and which HTML goes where.

The folder is not called `pages`: Streamlit takes a folder of that name beside the script that it runs for
scripts to run by themselves, and a shared address would lead to one of them, without the shell.
"""
