# The re-ranker `answers`: `squad`, trained further in five rounds of 160 tokens. The SQuAD questions of the included
# model were not recorded, and `linkseek-static` has been trained again since, so candidates differ. Needs DIR, a folder
# of packed collections, the files of docs/results/experiments.md, index/squad-lexical and the indexes of
# `python -m experiments shelf --data DIR`.
set -e
DIR=$1

# Two rounds from labels: 7,000 development questions of NQ, 3,100 training questions of WebQuestions, 2,000 of SQuAD
# (others in each round), where one of the first 50 passages has an answer (29 and 53 %).
linkseek evaluate --index index/schools --queries results/nq-dev/queries.jsonl --limit 7000 --pipeline hybrid-weighted hybrid-static --depth 50 --latency 0 --no-report --output results/nq
linkseek evaluate --index index/schools --queries results/wq-train.jsonl --limit 3100 --pipeline hybrid-weighted hybrid-static --depth 50 --latency 0 --no-report --output results/wq
linkseek negatives --index index/schools --run results/nq/runs/hybrid-weighted.trec --queries results/nq-dev/queries.jsonl --depth 50 --negatives 30 --output results/nq-pairs.jsonl
linkseek negatives --index index/schools --run results/wq/runs/hybrid-weighted.trec --queries results/wq-train.jsonl --depth 50 --negatives 30 --output results/wq-pairs.jsonl
linkseek negatives --index index/schools --run results/nq/runs/hybrid-static.trec --queries results/nq-dev/queries.jsonl --depth 50 --negatives 30 --output results/nq-static.jsonl
linkseek negatives --index index/schools --run results/wq/runs/hybrid-static.trec --queries results/wq-train.jsonl --depth 50 --negatives 30 --output results/wq-static.jsonl
head -n 20000 results/squad-train/queries.jsonl | shuf -n 4000 --random-source=<(yes 1) > results/squad-asked-4000.jsonl
linkseek search --index index/squad-lexical --queries results/squad-asked-4000.jsonl --pipeline bm25 -k 60 --output results/squad-4000.trec
linkseek negatives --index index/squad-lexical --run results/squad-4000.trec --queries results/squad-asked-4000.jsonl --qrels results/squad-train/qrels.txt --depth 60 --negatives 15 --output results/squad-4000.jsonl
head -n 2000 results/squad-4000.jsonl > results/squad-first.jsonl
tail -n 2000 results/squad-4000.jsonl > results/squad-second.jsonl
linkseek finetune answers-reranker --set output.folder=models/round-1
linkseek finetune answers-reranker --set model.base=models/round-1 --set training.seed=2 --set 'data.pairs=["results/nq-static.jsonl", "results/wq-static.jsonl", "results/squad-second.jsonl"]' --set output.folder=models/round-2

# The third round learns from two encoders how to rank 8 of the best 32 passages of `both` of shelf.toml, for 10,000
# questions: 4,500 of NQ, 2,700 of WebQuestions, 1,200 and 1,100 of SQuAD over Wikipedia for Schools and over its own
# paragraphs, 500 training claims of SciFact. Two trainings of one step store the vectors of paragraphs and abstracts.
head -n 4500 results/nq-dev/queries.jsonl > results/asked.jsonl
head -n 2700 results/wq-train.jsonl >> results/asked.jsonl
gunzip -c "$DIR"/qa/squad-train-on-wikispeedia.jsonl.gz | head -n 1200 >> results/asked.jsonl
shuf -n 6100 --random-source=<(yes 2) results/squad-train/queries.jsonl > results/squad-asked-6100.jsonl
head -n 1100 results/squad-asked-6100.jsonl > results/squad-asked-1100.jsonl
tail -n 5000 results/squad-asked-6100.jsonl > results/squad-asked-5000.jsonl
gunzip -c "$DIR"/scifact/queries.train.jsonl.gz | head -n 500 > results/claims.jsonl
both() { linkseek search --index index/$1 --queries results/$2.jsonl --pipelines-file results/shelf/pipelines.toml --pipeline both -k $3 --output results/$2.trec; }
both schools asked 32; both squad squad-asked-1100 32; both scifact claims 32
ranked() { linkseek negatives --index index/$1 --run results/$2.trec --queries results/$2.jsonl --positives ranked --depth 1 --output results/$2-first.jsonl; linkseek negatives --index index/$1 --run results/$2.trec --queries results/$2.jsonl --pairs results/$2-first.jsonl --depth 32 --negatives 31 --output results/$2-ranked.jsonl; }
ranked schools asked; ranked squad squad-asked-1100; ranked scifact claims
third() { linkseek finetune answers-reranker --set model.base=models/round-2 --set data.negatives=7 --set 'teacher.encoder=["all-MiniLM-L6-v2", "multilingual-e5-small"]' --set 'teacher.temperature=[0.05, 0.02]' --set teacher.weight=1.0 --set teacher.vectors=results/teachers.safetensors --set teacher.index=index/$1 --set "data.pairs=[$2]" --set training.warmup=0.05 --set output.folder=models/round-3 $3; }
third squad '"results/squad-asked-1100-ranked.jsonl"' '--set training.steps=1 --set output.folder=models/squad-step'
third scifact '"results/claims-ranked.jsonl"' '--set training.steps=1 --set output.folder=models/scifact-step'
third schools '"results/asked-ranked.jsonl", "results/squad-asked-1100-ranked.jsonl", "results/claims-ranked.jsonl"'

# The last two rounds learn from labels again, with .3 of the loss from the two encoders: over the first 50 of `both`,
# then over the results of `hybrid-static`.
head -n 6757 results/nq-dev/queries.jsonl > results/nq-6757.jsonl
head -n 3178 results/wq-train.jsonl > results/wq-3178.jsonl
both schools nq-6757 50; both schools wq-3178 50; both squad squad-asked-5000 32
linkseek negatives --index index/schools --run results/nq-6757.trec --queries results/nq-6757.jsonl --depth 50 --negatives 30 --output results/nq-both.jsonl
linkseek negatives --index index/schools --run results/wq-3178.trec --queries results/wq-3178.jsonl --depth 50 --negatives 30 --output results/wq-both.jsonl
linkseek negatives --index index/squad --run results/squad-asked-5000.trec --queries results/squad-asked-5000.jsonl --qrels results/squad-train/qrels.txt --depth 32 --negatives 15 --output results/squad-both.jsonl
head -n 2000 results/squad-both.jsonl > results/squad-both-first.jsonl
tail -n 3000 results/squad-both.jsonl > results/squad-both-second.jsonl
labelled() { linkseek finetune answers-reranker --set 'teacher.encoder=["all-MiniLM-L6-v2", "multilingual-e5-small"]' --set 'teacher.temperature=[0.05, 0.02]' --set teacher.weight=0.3 --set teacher.vectors=results/teachers.safetensors --set teacher.index=index/$1 --set model.base=models/round-$2 --set "data.pairs=[$3]" --set training.learning_rate=2e-4 --set training.warmup=0.05 --set training.seed=$4 --set output.folder=models/$5 $6; }
labelled squad 3 '"results/squad-both.jsonl"' 12345 squad-step-2 '--set training.steps=1'
labelled schools 3 '"results/nq-both.jsonl", "results/wq-both.jsonl", "results/squad-both-first.jsonl"' 12345 round-4
labelled schools 4 '"results/nq-static.jsonl", "results/wq-static.jsonl", "results/squad-both-second.jsonl"' 2 answers
