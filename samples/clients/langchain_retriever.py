"""A retriever of LangChain over `linkseek serve`."""

from typing import Any

import requests
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class LinkseekRetriever(BaseRetriever):
    """The k best passages of a question. Raises `ValueError` with the sentence of the service."""

    url: str = "http://127.0.0.1:8000"
    token: str = ""
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        body = {"questions": [query], "k": self.k}
        answer = requests.post(f"{self.url}/search", json=body, headers=headers, timeout=30)
        if not answer.ok:
            raise ValueError(answer.json()["detail"])
        hits = answer.json()["answers"][0]["hits"]
        return [Document(id=hit["id"], page_content=hit["text"], metadata=hit) for hit in hits]
