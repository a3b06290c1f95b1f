package org.example.tally

/** Sums over the last `slots` periods; old periods fall off as time goes on. */
class Window(slots: Int, periodMillis: Long, clock: () => Long) {
  private val sums = new Array[Long](slots)
  private val epochs = Array.fill(slots)(-1L)

  def add(amount: Long): Unit = synchronized {
    val epoch = clock() / periodMillis
    val slot = (epoch % slots).toInt
    if (epochs(slot) != epoch) {
      epochs(slot) = epoch
      sums(slot) = 0
    }
    sums(slot) += amount
  }

  def sum: Long = synchronized {
    val oldest = clock() / periodMillis - slots + 1
    sums.indices.filter(i => epochs(i) >= oldest).map(i => sums(i)).sum
  }

  def perSecond: Double = sum * 1000.0 / (slots * periodMillis)
}

/** Forgets old values by halves: after `halfLifeMillis` a value weighs half as much. */
class Decaying(halfLifeMillis: Long, clock: () => Long) {
  private var weight = 0.0
  private var updated = clock()

  def add(amount: Double): Unit = {
    val now = clock()
    weight = weight * fade(now - updated) + amount
    updated = now
  }

  def value: Double = weight * fade(clock() - updated)

  private def fade(elapsed: Long): Double = math.pow(0.5, elapsed.toDouble / halfLifeMillis)
}
