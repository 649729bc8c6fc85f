"""The programs that people run: the Streamlit pages, the search command and the evaluation runner."""
