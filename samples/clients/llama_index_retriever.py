"""A retriever of LlamaIndex over `linkseek serve`."""

from typing import Any

import requests
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode


class LinkseekRetriever(BaseRetriever):
    """The k best passages of a question. Raises `ValueError` with the sentence of the service."""

    def __init__(self, url: str = "http://127.0.0.1:8000", token: str = "", k: int = 5) -> None:
        self.url, self.token, self.k = url, token, k
        super().__init__()

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        body = {"questions": [query_bundle.query_str], "k": self.k}
        answer = requests.post(f"{self.url}/search", json=body, headers=headers, timeout=30)
        if not answer.ok:
            raise ValueError(answer.json()["detail"])
        hits = answer.json()["answers"][0]["hits"]
        return [
            NodeWithScore(node=TextNode(id_=hit["id"], text=hit["text"], metadata=hit), score=hit["score"])
            for hit in hits
        ]
