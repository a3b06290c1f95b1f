package org.example.tally

import java.util.concurrent.ConcurrentHashMap
import scala.jdk.CollectionConverters._

/** All metrics of a program, by name. */
class Registry {
  private val metrics = new ConcurrentHashMap[String, Metric[_]]()

  def register[M <: Metric[_]](metric: M): M = {
    val earlier = metrics.putIfAbsent(metric.name, metric)
    if (earlier != null && (earlier ne metric))
      throw new IllegalStateException("two metrics want the name " + metric.name)
    metric
  }

  def counter(name: String): Counter = {
    metrics.computeIfAbsent(name, n => new Counter(n)) match {
      case counter: Counter => counter
      case other            => throw new IllegalStateException(name + " is a " + other.getClass.getSimpleName)
    }
  }

  @annotation.varargs
  def remove(names: String*): Int = names.count(name => metrics.remove(name) != null)

  def snapshot(): Seq[(String, Any)] =
    metrics.values.asScala.map(metric => metric.name -> metric.read()).toSeq.sortBy(_._1)

  def time[A](name: String)(block: => A)(implicit clock: () => Long): A = {
    val started = clock()
    try block
    finally counter(name + ".millis").increment(clock() - started)
  }
}

object Exposition {
  private val Unsafe = "[^a-zA-Z0-9_:]".r

  def render(registry: Registry): String = {
    registry.snapshot().map { case (name, value) => s"${sanitize(name)} ${format(value)}" }.mkString("", "\n", "\n")
  }

  /** Only letters, digits, `_` and `:`; a digit in front gets an underscore before it. */
  def sanitize(name: String): String = {
    val clean = Unsafe.replaceAllIn(name, "_")
    if (clean.headOption.exists(_.isDigit)) "_" + clean else clean
  }

  private def format(value: Any): String = value match {
    case d: Double if d.isNaN                  => "NaN"
    case d: Double if d.isInfinity             => if (d > 0) "+Inf" else "-Inf"
    case d: Double if d == math.rint(d)        => d.toLong.toString
    case other                                 => other.toString
  }

  /** Lines that are empty or start with # carry no sample. */
  def parse(text: String): Map[String, Double] =
    text.split("\n").iterator
      .map(_.trim)
      .filterNot(line => line.isEmpty || line.startsWith("#"))
      .map { line =>
        val cut = line.lastIndexOf(' ')
        line.substring(0, cut) -> toDouble(line.substring(cut + 1))
      }
      .toMap

  private def toDouble(text: String): Double = text match {
    case "+Inf" => Double.PositiveInfinity
    case "-Inf" => Double.NegativeInfinity
    case other  => other.toDouble
  }
}
