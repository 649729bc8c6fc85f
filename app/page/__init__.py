"""The pages: their layout, the services that they ask, and the templates that they show. No HTML is written
here.

The folder is not called `pages`: Streamlit would take it, next to the script that it runs, for scripts to run
by themselves, and a shared address would lead to one of them, without the shell.
"""
