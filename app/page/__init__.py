"""The pages: layout, which service is asked, and which template is shown where. No HTML is written here.

The folder is not called `pages`: Streamlit would take it, next to the script that it runs, for scripts to run
by themselves, and a shared address would lead to one of them, without the shell.
"""
