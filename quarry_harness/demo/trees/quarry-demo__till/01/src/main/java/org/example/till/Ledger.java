package org.example.till;

import java.time.Instant;
import java.util.ArrayList;
import java.util.Currency;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Predicate;

/** A double-entry book that is only ever appended to. */
public class Ledger {

    /** A booked transaction. */
    public record Posting(long number, Instant at, String memo, List<Entry> entries) {
        public Posting {
            entries = List.copyOf(entries);
        }
    }

    private final List<Posting> postings = new ArrayList<>();
    private final Map<String, Map<Currency, Long>> balances = new HashMap<>();
    private final List<BiConsumer<Ledger, Posting>> listeners = new ArrayList<>();

    public synchronized Posting post(String memo, Instant at, List<Entry> entries) {
        Map<Currency, Long> sums = new LinkedHashMap<>();
        for (Entry entry : entries) {
            sums.merge(entry.amount().currency(), entry.amount().minor(), Math::addExact);
        }
        sums.forEach((currency, sum) -> {
            if (sum != 0) {
                throw new UnbalancedException(memo, currency, sum);
            }
        });
        Posting posting = new Posting(postings.size() + 1L, at, memo, entries);
        postings.add(posting);
        for (Entry entry : posting.entries()) {
            balances.computeIfAbsent(entry.account(), name -> new HashMap<>())
                .merge(entry.amount().currency(), entry.amount().minor(), Math::addExact);
        }
        listeners.forEach(listener -> listener.accept(this, posting));
        return posting;
    }

    public Posting post(String memo, Instant at, Entry... entries) {
        return post(memo, at, List.of(entries));
    }

    /** Books the opposite of an earlier transaction; the book itself is never edited. */
    public Posting undo(long number, Instant at) {
        Posting original = find(number);
        List<Entry> opposite = original.entries().stream().map(Entry::reversed).toList();
        return post("undo of " + number + ": " + original.memo(), at, opposite);
    }

    public synchronized Posting find(long number) {
        if (number < 1 || number > postings.size()) {
            throw new IllegalArgumentException("no posting " + number);
        }
        return postings.get((int) number - 1);
    }

    public synchronized Money balance(String account, Currency currency) {
        long minor = balances.getOrDefault(account, Map.of()).getOrDefault(currency, 0L);
        return new Money(minor, currency);
    }

    public synchronized Money balance(String account, Currency currency, Instant until) {
        Money sum = Money.zero(currency);
        for (Posting posting : postings) {
            if (posting.at().isAfter(until)) {
                continue;
            }
            for (Entry entry : posting.entries()) {
                if (entry.account().equals(account) && entry.amount().currency().equals(currency)) {
                    sum = sum.plus(entry.amount());
                }
            }
        }
        return sum;
    }

    public synchronized List<Posting> search(Predicate<Posting> wanted) {
        return postings.stream().filter(wanted).toList();
    }

    public void subscribe(BiConsumer<Ledger, Posting> listener) {
        listeners.add(listener);
    }

    /** Thrown when debits and credits differ. */
    public static class UnbalancedException extends RuntimeException {
        UnbalancedException(String memo, Currency currency, long difference) {
            super("\"" + memo + "\" is off by " + new Money(difference, currency));
        }
    }
}
