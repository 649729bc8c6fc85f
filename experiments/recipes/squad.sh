# The re-ranker `squad`, with other articles and questions: those of the included model were not recorded, only the
# hash in its card. 6,000 questions of SQuAD's training set, drawn from 8,000 of 400 of its 440 articles, each with
# three of BM25's best 30 paragraphs that do not contain its answer; 100 of the other articles choose the checkpoint.
# Needs index/squad-lexical and results/squad-train (docs/results/experiments.md).
set -e
cut -d: -f3 results/squad-train/queries.jsonl | uniq | shuf --random-source=<(yes 1) > results/squad-articles.txt
awk -F: 'NR == FNR { other[$0] = NR > 400; next } !other[$3]' results/squad-articles.txt results/squad-train/queries.jsonl | shuf -n 8000 --random-source=<(yes 1) > results/squad-asked.jsonl
awk -F: 'NR == FNR { other[$0] = NR > 400; next } other[$3]' results/squad-articles.txt results/squad-train/queries.jsonl | shuf -n 200 --random-source=<(yes 1) > results/squad-dev-asked.jsonl
linkseek search --index index/squad-lexical --queries results/squad-asked.jsonl --pipeline bm25 -k 60 --output results/squad-bm25.trec
linkseek search --index index/squad-lexical --queries results/squad-dev-asked.jsonl --pipeline bm25 -k 60 --output results/squad-dev-bm25.trec
linkseek negatives --index index/squad-lexical --run results/squad-bm25.trec --queries results/squad-asked.jsonl --qrels results/squad-train/qrels.txt --depth 60 --negatives 30 --output results/squad-pairs.jsonl
linkseek negatives --index index/squad-lexical --run results/squad-dev-bm25.trec --queries results/squad-dev-asked.jsonl --qrels results/squad-train/qrels.txt --depth 60 --negatives 30 --output results/squad-dev-pairs.jsonl
linkseek finetune squad-reranker
