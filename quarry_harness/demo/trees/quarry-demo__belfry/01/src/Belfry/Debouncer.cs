using System;
using System.Threading;

namespace Belfry
{
    /// <summary>Passes on the last of a burst of events once it has been quiet for a while.</summary>
    public sealed class Debouncer<TEvent> : IDisposable
    {
        private readonly IEventBus target;
        private readonly TimeSpan quiet;
        private readonly Timer timer;
        private readonly object gate = new object();
        private TEvent pending;
        private bool armed;

        public Debouncer(IEventBus target, TimeSpan quiet)
        {
            this.target = target;
            this.quiet = quiet;
            timer = new Timer(_ => Flush());
        }

        [Obsolete("Use Offer(TEvent, bool).")]
        public void Offer(TEvent message)
        {
            Offer(message, false);
        }

        public void Offer(TEvent message, bool urgent)
        {
            lock (gate)
            {
                pending = message;
                armed = true;
                timer.Change(urgent ? TimeSpan.Zero : quiet, Timeout.InfiniteTimeSpan);
            }
        }

        public void Flush()
        {
            TEvent message;
            lock (gate)
            {
                if (!armed)
                {
                    return;
                }

                message = pending;
                armed = false;
            }

            target.Publish(message);
        }

        public void Dispose()
        {
            timer.Dispose();
        }
    }
}
