package org.example.tally

import scala.collection.mutable

/** Approximate percentiles: buckets grow by a constant factor, so the relative error has a bound. */
class Quantiles(relativeError: Double) {
  private val gamma = (1 + relativeError) / (1 - relativeError)
  private val logGamma = math.log(gamma)
  private val buckets = mutable.TreeMap.empty[Int, Long]
  private var zeros = 0L
  private var total = 0L

  def record(value: Double): Unit = {
    require(value >= 0, "negative values are not supported")
    total += 1
    if (value < 1e-9) zeros += 1
    else {
      val index = bucketOf(value)
      buckets(index) = buckets.getOrElse(index, 0L) + 1
    }
  }

  private def bucketOf(value: Double): Int = math.ceil(math.log(value) / logGamma).toInt

  def quantile(q: Double): Option[Double] = {
    if (total == 0) return None
    val rank = (q * (total - 1)).toLong
    var seen = zeros
    if (rank < seen) return Some(0.0)
    val hit = buckets.iterator.find { case (_, count) =>
      seen += count
      rank < seen
    }
    // The middle of a bucket, as far from its lower bound as from its upper one.
    hit.map { case (index, _) => 2 * math.pow(gamma, index) / (gamma + 1) }
  }

  /** Joins neighbours at the low end until at most `limit` buckets are left. */
  def collapse(limit: Int): Unit =
    while (buckets.size > limit) {
      val (lowest, count) = buckets.head
      buckets -= lowest
      val next = buckets.head._1
      buckets(next) = buckets(next) + count
    }

  def size: Int = buckets.size
}

object Quantiles {
  def apply(): Quantiles = new Quantiles(0.01)

  /** Exact, for tests and small samples. */
  def exact(sorted: IndexedSeq[Double], q: Double): Double = {
    val position = q * (sorted.size - 1)
    val below = math.floor(position).toInt
    val above = math.min(below + 1, sorted.size - 1)
    sorted(below) + (position - below) * (sorted(above) - sorted(below))
  }
}
