package org.example.tally

sealed trait Verdict
case object Fine extends Verdict
final case class Firing(since: Long, value: Double) extends Verdict

/** Fires once a value has been too high for long enough; goes quiet below a lower bar, so that it does not flap. */
class Alarm(raiseAbove: Double, clearBelow: Double, patienceMillis: Long) {
  private var overSince: Option[Long] = None
  private var state: Verdict = Fine

  def observe(value: Double, now: Long): Verdict = {
    if (value > raiseAbove && overSince.isEmpty) overSince = Some(now)
    state match {
      case Firing(_, _) if value < clearBelow =>
        overSince = None
        state = Fine
      case Fine if value <= raiseAbove =>
        overSince = None
      case _ =>
        overSince.filter(now - _ >= patienceMillis).foreach(start => state = Firing(start, value))
    }
    state
  }

  def reset(): Unit = {
    overSince = None
    state = Fine
  }
}
