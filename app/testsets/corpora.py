"""The corpora that test sets are asked on, each with the command that builds an index of it."""

from __future__ import annotations

from app.testsets import Corpus

SAMPLE = Corpus(
    "Linkseek's sample, a small wiki",
    "samples/linkseek-sample.xml.bz2",
    "--format mediawiki",
    "sample",
    150,
    "in this repository",
)
WIKIPEDIA = Corpus(
    "any English Wikipedia; published figures are on DPR's, of December 2018",
    "psgs_w100.tsv.gz",
    "--format dpr",
    "dpr-w100",
    21_015_324,
    "https://dl.fbaipublicfiles.com/dpr/wikipedia_split/psgs_w100.tsv.gz",
)
DPR_W100 = Corpus(
    "DPR's Wikipedia of December 2018, in passages of 100 words",
    WIKIPEDIA.file,
    WIKIPEDIA.options,
    WIKIPEDIA.index,
    WIKIPEDIA.documents,
    WIKIPEDIA.where,
)
MSMARCO_PASSAGES = Corpus(
    "MS MARCO passages (version 1)",
    "collection.tsv",
    "--format msmarco-passages",
    "msmarco-passages",
    8_841_823,
    "https://microsoft.github.io/msmarco/",
)
MSMARCO_DOCUMENTS = Corpus(
    "MS MARCO documents (version 1)",
    "msmarco-docs.tsv.gz",
    "--format msmarco-documents --passage-words 0",
    "msmarco-documents",
    3_213_835,
    "https://microsoft.github.io/msmarco/",
)
HOTPOTQA = Corpus(
    "HotpotQA's abstracts of Wikipedia of October 2017",
    "hotpotqa-abstracts.jsonl.gz",
    "--format jsonl --passage-words 0",
    "hotpotqa",
    5_233_329,
    "https://hotpotqa.github.io/wiki-readme.html; as JSON lines whose ids are the titles",
)
PUBMED = Corpus(
    "abstracts of PubMed, from BioASQ's task 8A",
    "bioasq-abstracts.jsonl.gz",
    "--format jsonl",
    "bioasq",
    where="http://participants-area.bioasq.org (registration); as JSON lines",
)
ROBUST04 = Corpus(
    "TREC disks 4 and 5 without the Congressional Record",
    "robust04.jsonl.gz",
    "--format jsonl --passage-words 0",
    "robust04",
    528_155,
    "https://trec.nist.gov/data/cd45/ (agreement); as JSON lines whose ids are the DOCNOs",
)
CLUEWEB09B = Corpus(
    "ClueWeb09, category B",
    "clueweb09b.jsonl.gz",
    "--format jsonl --passage-words 0",
    "clueweb09b",
    50_220_423,
    "https://lemurproject.org/clueweb09/ (agreement); as JSON lines whose ids are the TREC ids",
)
GOV2 = Corpus(
    "Gov2, a crawl of .gov of 2004",
    "gov2.jsonl.gz",
    "--format jsonl --passage-words 0",
    "gov2",
    25_205_179,
    "http://ir.dcs.gla.ac.uk/test_collections/ (agreement); as JSON lines whose ids are the DOCNOs",
)


def packed(folder: str, title: str, documents: int, *, passages: bool = True) -> Corpus:
    """A corpus in the data folder, as FOLDER/docs.jsonl.zst; passages: each document is one."""
    words = " --passage-words 0" if passages else ""
    return Corpus(
        title,
        f"$LINKSEEK_DATA/{folder}/docs.jsonl.zst",
        f"--format jsonl{words}",
        folder,
        documents,
        f"`{folder}/docs.jsonl.zst` in the data folder",
    )


SQUAD = packed("squad", "the paragraphs of SQuAD 1.1", 20_815)
NQ_GOLD = packed("nq-gold", "the gold passages of 2,655 NQ questions", 2_600)
SCIFACT = packed("scifact", "SciFact's abstracts", 5_183)
CRANFIELD = packed("cranfield", "the Cranfield abstracts", 1_400)
CACM = packed("cacm", "abstracts of the Communications of the ACM", 3_204)
DL19_POOL = packed("msmarco-dl19", "MS MARCO passages that six systems found for TREC DL 2019", 30_005)
WIKISPEEDIA = packed("wikispeedia", "Wikipedia for Schools 2007 (Wikispeedia)", 4_598, passages=False)
