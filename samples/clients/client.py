"""python client.py "QUESTION": a search by the service, with a token from LINKSEEK_TOKEN, if it has one."""

import os
import sys

import requests

token = os.environ.get("LINKSEEK_TOKEN")
headers = {"Authorization": f"Bearer {token}"} if token else {}
url = os.environ.get("LINKSEEK_URL", "http://127.0.0.1:8000")
answer = requests.post(f"{url}/search", json={"questions": sys.argv[1:], "k": 3}, headers=headers, timeout=30)
if not answer.ok:
    sys.exit(answer.json()["detail"])  # "code" is for programs
for hit in answer.json()["answers"][0]["hits"]:
    print(f"{hit['title']}: {hit['text']}")
