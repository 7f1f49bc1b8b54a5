package org.example.shop;

import java.util.List;
import java.util.Optional;

public final class OrderService {
    private final OrderRepository repository;

    public OrderService(OrderRepository repository) {
        this.repository = repository;
    }

    public Optional<Order> find(String id) {
        return repository.byId(id);
    }

    private static int total(List<Line> lines) {
        return lines.stream().mapToInt(Line::cents).sum();
    }
}

interface OrderRepository {
    Optional<Order> byId(String id);
}

record Line(String sku, int cents) {}
