package org.example.till;

import java.util.Comparator;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;

/** Text output for people. */
public abstract class Statement {

    protected abstract String heading();

    protected abstract <T extends Comparable<T>> List<String> rows(List<Ledger.Posting> postings, Function<Ledger.Posting, T> order);

    public String render(List<Ledger.Posting> postings) {
        return heading() + "\n" + String.join("\n", rows(postings, Ledger.Posting::at));
    }

    /** Pads on the left, so that figures line up at the right edge. */
    static String column(Object value, int width) {
        String text = String.valueOf(value);
        return text.length() >= width ? text : " ".repeat(width - text.length()) + text;
    }

    /** What happened in one account, oldest first, with a running total. */
    public static Statement forAccount(String account) {
        return new Statement() {
            @Override
            protected String heading() {
                return "Account " + account;
            }

            @Override
            protected <T extends Comparable<T>> List<String> rows(List<Ledger.Posting> postings, Function<Ledger.Posting, T> order) {
                long[] running = new long[1];
                return postings.stream()
                    .sorted(Comparator.comparing(order))
                    .flatMap(posting -> posting.entries().stream().filter(entry -> entry.account().equals(account)))
                    .map(entry -> {
                        running[0] += entry.amount().minor();
                        return column(entry.amount(), 16) + column(new Money(running[0], entry.amount().currency()), 16);
                    })
                    .collect(Collectors.toList());
            }
        };
    }
}
