// node client.mjs "QUESTION": a search by the service, with a token from LINKSEEK_TOKEN, if it has one.
const { LINKSEEK_URL: url = "http://127.0.0.1:8000", LINKSEEK_TOKEN: token } = process.env;
const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
const body = JSON.stringify({ questions: process.argv.slice(2), k: 3 });
const response = await fetch(`${url}/search`, { method: "POST", headers, body });
const answer = await response.json();
if (response.ok) for (const hit of answer.answers[0].hits) console.log(`${hit.title}: ${hit.text}`);
else {
  console.error(answer.detail); // "code" is for programs
  process.exitCode = 1;
}
