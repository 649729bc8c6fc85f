"""What people run: the Streamlit pages, the search command and the evaluation runner."""
