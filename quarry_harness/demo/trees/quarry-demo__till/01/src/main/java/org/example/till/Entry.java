package org.example.till;

/** One side of a transaction: positive amounts are debits. */
public record Entry(String account, Money amount) {

    public Entry {
        if (account.isBlank()) {
            throw new IllegalArgumentException("an entry needs an account");
        }
    }

    public Entry reversed() {
        return new Entry(account, amount.negated());
    }
}
