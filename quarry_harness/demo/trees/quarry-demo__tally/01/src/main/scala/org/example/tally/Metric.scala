package org.example
package tally

/** Something that can be read at any time. */
trait Metric[A] {
  def name: String

  def read(): A

  /** The value since the last call; then it starts again. */
  def drain(): A

  def describe(labels: Map[String, String]): String =
    name + labels.toSeq.sorted.map { case (key, value) => s"$key=$value" }.mkString("{", ",", "}")
}

class Counter(val name: String) extends Metric[Long] {
  private val cell = new java.util.concurrent.atomic.LongAdder

  def this(prefix: String, name: String) = {
    this(prefix + "." + name)
  }

  def increment(): Unit = cell.increment()

  def increment(by: Long): Unit = {
    require(by >= 0, "a counter never goes down")
    cell.add(by)
  }

  override def read(): Long = cell.sum()

  override def drain(): Long = cell.sumThenReset()
}

class Gauge(val name: String, sample: () => Double) extends Metric[Double] {
  override def read(): Double = sample()

  override def drain(): Double = read()
}
