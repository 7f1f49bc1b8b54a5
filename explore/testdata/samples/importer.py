#!/usr/bin/env python3
"""Imports invoices."""
import csv
from dataclasses import dataclass

ROW_LIMIT = 500

@dataclass
class Row:
    number: str
    cents: int

class Importer:
    def __init__(self, path):
        self.path = path

    def rows(self):
        with open(self.path) as f:
            yield from csv.DictReader(f)

def parse_amount(text):
    return int(round(float(text) * 100))

async def main():
    for row in Importer("invoices.csv").rows():
        print(row)

if __name__ == "__main__":
    main()
