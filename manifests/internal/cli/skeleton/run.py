"""Counts the words of a text."""

import json
import sys


def count(text):
    words = text.split()
    return {"words": len(words), "different": len({w.lower() for w in words})}


def main():
    call = json.load(sys.stdin)
    json.dump(count(call["text"]), sys.stdout)


if __name__ == "__main__":
    main()
