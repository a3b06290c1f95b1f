package org.example.till;

import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.time.LocalDate;
import java.util.Currency;
import java.util.HashMap;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;

/** Rates by day, held in memory. */
public final class RateTable implements RateSource {

    private record Pair(Currency from, Currency to) {
        Pair reversed() {
            return new Pair(to, from);
        }
    }

    private final Map<Pair, NavigableMap<LocalDate, BigDecimal>> table = new HashMap<>();
    private final int maxAgeDays;

    public RateTable() {
        this(7);
    }

    public RateTable(int maxAgeDays) {
        this.maxAgeDays = maxAgeDays;
    }

    public void record(Currency from, Currency to, LocalDate day, BigDecimal rate) {
        if (rate.signum() <= 0) {
            throw new IllegalArgumentException("a rate must be positive: " + rate);
        }
        table.computeIfAbsent(new Pair(from, to), pair -> new TreeMap<>()).put(day, rate);
    }

    @Override
    public Optional<BigDecimal> rate(Currency from, Currency to, LocalDate day) {
        if (from.equals(to)) {
            return Optional.of(BigDecimal.ONE);
        }
        Pair pair = new Pair(from, to);
        Optional<BigDecimal> direct = onOrBefore(pair, day);
        if (direct.isPresent()) {
            return direct;
        }
        return onOrBefore(pair.reversed(), day).map(r -> BigDecimal.ONE.divide(r, MathContext.DECIMAL64));
    }

    private Optional<BigDecimal> onOrBefore(Pair pair, LocalDate day) {
        NavigableMap<LocalDate, BigDecimal> days = table.get(pair);
        if (days == null) {
            return Optional.empty();
        }
        Map.Entry<LocalDate, BigDecimal> entry = days.floorEntry(day);
        if (entry == null || entry.getKey().plusDays(maxAgeDays).isBefore(day)) {
            return Optional.empty();
        }
        return Optional.of(entry.getValue());
    }

    public Money convert(Money amount, Currency target, LocalDate day) {
        BigDecimal rate = rate(amount.currency(), target, day)
            .orElseThrow(() -> new IllegalStateException("no rate " + amount.currency() + " to " + target + " on " + day));
        int shift = target.getDefaultFractionDigits() - amount.currency().getDefaultFractionDigits();
        return new Money(
            BigDecimal.valueOf(amount.minor()).multiply(rate).movePointRight(shift).setScale(0, RoundingMode.HALF_EVEN).longValueExact(),
            target);
    }
}
