# The re-rankers `prop`, `harp` and `php`: 3,000 contrasts of "Wikipedia for Schools", PHP's in three stages with 8 worse
# passages, then 1,000 of 1,333 questions of SQuAD's training set. The pairs are those of the cards, by their SHA-256;
# the miners have changed since, so the contrasts are others of the same kind.
set -e
linkseek mine-contrasts --index index/wikispeedia --objective prop --contrasts 3000 --output results/prop.jsonl.zst
linkseek mine-contrasts --index index/wikispeedia --objective harp --contrasts 3000 --output results/harp.jsonl.zst
linkseek mine-contrasts --index index/wikispeedia --objective php-hp --contrasts 3000 --negatives 8 --output results/php-hp.jsonl.zst
linkseek mine-contrasts --index index/wikispeedia --objective php-shp --contrasts 3000 --negatives 8 --output results/php-shp.jsonl.zst
linkseek mine-contrasts --index index/wikispeedia --objective php-mrds --contrasts 3000 --negatives 8 --output results/php-mrds.jsonl.zst
linkseek pretrain small-prop-pretrain --set mlm.passes=one --set stages.1.steps=375
linkseek pretrain small-harp-pretrain --set mlm.passes=one --set stages.1.steps=375
linkseek pretrain small-php-pretrain --set mlm.passes=one --set stages.1.steps=125 --set stages.2.steps=125 --set stages.3.steps=125
python -c "import random; rows = list(open('results/squad-train/queries.jsonl', encoding='utf-8', newline='\n')); print(*(rows[n] for n in sorted(random.Random(1).sample(range(len(rows)), 1333))), sep='', end='')" > results/squad-asked-1333.jsonl
linkseek search --index index/squad-lexical --queries results/squad-asked-1333.jsonl --pipeline bm25 -k 60 --output results/squad-1333.trec
linkseek negatives --index index/squad-lexical --run results/squad-1333.trec --queries results/squad-asked-1333.jsonl --qrels results/squad-train/qrels.txt --depth 60 --negatives 30 --output results/squad-1333.jsonl
for name in prop harp php; do
  linkseek finetune squad-reranker --set model.base=models/small-$name --set 'data.pairs=["results/squad-1333.jsonl"]' --set data.shots=1000 --set 'dev.pairs=[]' --set output.folder=models/$name-finetuned
done
