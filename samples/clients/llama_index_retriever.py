"""A retriever of LlamaIndex over `linkseek serve`."""

from typing import Any

import requests
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode


class LinkseekRetriever(BaseRetriever):
    """The five best passages of a question."""

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        body = {"queries": [query_bundle.query_str], "topk": 5, "return_scores": True}
        [hits] = requests.post("http://127.0.0.1:8000/retrieve", json=body, timeout=30).json()["result"]
        return [
            NodeWithScore(node=TextNode(id_=passage["id"], text=passage["contents"]), score=hit["score"])
            for hit in hits
            for passage in [hit["document"]]
        ]
