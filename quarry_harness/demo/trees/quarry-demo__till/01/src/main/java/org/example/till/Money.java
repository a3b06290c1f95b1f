package org.example.till;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.Currency;
import java.util.List;
import java.util.Objects;

/** An amount in the smallest unit of its currency. */
public record Money(long minor, Currency currency) implements Comparable<Money> {

    public Money {
        Objects.requireNonNull(currency, "currency");
    }

    public static Money of(long minor, String code) {
        return new Money(minor, Currency.getInstance(code));
    }

    public static Money of(BigDecimal amount, Currency currency) {
        BigDecimal scaled = amount.movePointRight(currency.getDefaultFractionDigits());
        return new Money(scaled.setScale(0, RoundingMode.HALF_EVEN).longValueExact(), currency);
    }

    public static Money of(String text) {
        int gap = text.indexOf(' ');
        if (gap < 0) {
            throw new IllegalArgumentException("expected \"12.50 EUR\", got \"" + text + "\"");
        }
        return of(new BigDecimal(text.substring(0, gap)), Currency.getInstance(text.substring(gap + 1).trim()));
    }

    public static Money zero(Currency currency) {
        return new Money(0, currency);
    }

    public Money plus(Money other) {
        requireSame(other);
        return new Money(Math.addExact(minor, other.minor), currency);
    }

    public Money minus(Money other) {
        requireSame(other);
        return new Money(Math.subtractExact(minor, other.minor), currency);
    }

    public Money times(long factor) {
        return new Money(Math.multiplyExact(minor, factor), currency);
    }

    public Money times(BigDecimal factor, RoundingMode rounding) {
        return new Money(BigDecimal.valueOf(minor).multiply(factor).setScale(0, rounding).longValueExact(), currency);
    }

    /** Shares the amount by weight without losing or inventing a cent: the leftovers go to the first shares. */
    public List<Money> split(int... weights) {
        long total = 0;
        for (int weight : weights) {
            total += weight;
        }
        if (total <= 0) {
            throw new IllegalArgumentException("weights must add up to more than 0");
        }
        List<Money> shares = new ArrayList<>(weights.length);
        long left = minor;
        for (int weight : weights) {
            long share = Math.multiplyExact(minor, (long) weight) / total;
            shares.add(new Money(share, currency));
            left -= share;
        }
        for (int i = 0; left != 0; i = (i + 1) % weights.length) {
            long step = Long.signum(left);
            shares.set(i, new Money(shares.get(i).minor + step, currency));
            left -= step;
        }
        return shares;
    }

    public boolean isNegative() {
        return minor < 0;
    }

    public Money negated() {
        return new Money(Math.negateExact(minor), currency);
    }

    private void requireSame(Money other) {
        if (!currency.equals(other.currency)) {
            throw new IllegalArgumentException(currency + " and " + other.currency + " do not mix");
        }
    }

    @Override
    public int compareTo(Money other) {
        requireSame(other);
        return Long.compare(minor, other.minor);
    }

    @Override
    public String toString() {
        return BigDecimal.valueOf(minor, currency.getDefaultFractionDigits()).toPlainString() + " " + currency;
    }
}
