<?php
namespace Shop;

final class Page {
    public function title(): string { return "Shop"; }
    private static function price(int $cents): string { return "$cents"; }
}
