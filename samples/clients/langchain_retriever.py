"""A retriever of LangChain over `linkseek serve`."""

from typing import Any

import requests
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class LinkseekRetriever(BaseRetriever):
    """The k best passages of a question."""

    url: str = "http://127.0.0.1:8000/retrieve"
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        body = {"queries": [query], "topk": self.k, "return_scores": True}
        [hits] = requests.post(self.url, json=body, timeout=30).json()["result"]
        return [
            Document(page_content=passage["contents"], metadata={**passage, "score": hit["score"]})
            for hit in hits
            for passage in [hit["document"]]
        ]
