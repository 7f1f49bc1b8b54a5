-- shop schema
CREATE TABLE customers (
  id BIGINT PRIMARY KEY,
  email TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS orders (
  id BIGINT PRIMARY KEY,
  customer_id BIGINT REFERENCES customers(id)
);
CREATE UNIQUE INDEX orders_by_customer ON orders (customer_id);
create or replace view open_orders as select * from orders;
INSERT INTO customers VALUES (1, 'ann@example.org');
INSERT INTO customers VALUES (2, 'bo@example.org');
