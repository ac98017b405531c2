"""Adds each line of the standard input once to the filter `counted` of the
server in CUCKOOD_SERVER, eight at a time, and prints a line after each add."""

import sys
from concurrent.futures import ThreadPoolExecutor

import cuckood

with cuckood.Client(patience=120) as client, ThreadPoolExecutor(8) as pool:
    counted = client.filter("counted")
    for result in pool.map(counted.add, sys.stdin.read().split()):
        assert result == "added", result
        print(result, flush=True)
