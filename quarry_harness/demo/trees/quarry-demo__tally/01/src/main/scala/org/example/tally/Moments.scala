package org.example.tally

/** Mean and spread in one pass, without keeping the numbers. */
final case class Moments(count: Long, mean: Double, squares: Double) {

  def add(value: Double): Moments = {
    val delta = value - mean
    val next = mean + delta / (count + 1)
    Moments(count + 1, next, squares + delta * (value - next))
  }

  /** Joins what two workers saw. */
  def merge(other: Moments): Moments = {
    if (count == 0) return other
    if (other.count == 0) return this
    val total = count + other.count
    val delta = other.mean - mean
    Moments(
      total,
      mean + delta * other.count / total,
      squares + other.squares + delta * delta * count * other.count / total
    )
  }

  def variance: Double = if (count < 2) 0.0 else squares / (count - 1)

  def deviation: Double = math.sqrt(variance)
}

object Moments {
  val empty: Moments = Moments(0, 0.0, 0.0)

  def of(values: Iterable[Double]): Moments = values.foldLeft(empty)(_ add _)
}
