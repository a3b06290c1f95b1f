package org.example.till;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.Currency;
import java.util.Optional;

/** Where exchange rates come from. */
public interface RateSource {

    Optional<BigDecimal> rate(Currency from, Currency to, LocalDate day);

    default Optional<BigDecimal> latest(Currency from, Currency to) {
        return rate(from, to, LocalDate.now());
    }

    /** Asks the second source where the first has no answer. */
    static RateSource either(RateSource first, RateSource second) {
        return (from, to, day) -> first.rate(from, to, day).or(() -> second.rate(from, to, day));
    }
}
