using System;

namespace Belfry
{
    /// <summary>How often and how soon a failed delivery is tried again.</summary>
    public sealed class RetryPolicy
    {
        public static readonly RetryPolicy None = new RetryPolicy(1, TimeSpan.Zero, TimeSpan.Zero);

        private readonly int maxAttempts;
        private readonly TimeSpan first;
        private readonly TimeSpan longest;
        private Func<Exception, bool> transient = error => true;

        private RetryPolicy(int maxAttempts, TimeSpan first, TimeSpan longest)
        {
            this.maxAttempts = maxAttempts;
            this.first = first;
            this.longest = longest;
        }

        public static RetryPolicy Fixed(int maxAttempts, TimeSpan pause)
        {
            return new RetryPolicy(maxAttempts, pause, pause);
        }

        public static RetryPolicy Exponential(int maxAttempts, TimeSpan first, TimeSpan longest)
        {
            if (longest < first)
            {
                throw new ArgumentOutOfRangeException(nameof(longest));
            }

            return new RetryPolicy(maxAttempts, first, longest);
        }

        public RetryPolicy OnlyFor<TException>()
            where TException : Exception
        {
            return new RetryPolicy(maxAttempts, first, longest) { transient = error => error is TException };
        }

        public bool ShouldRetry(int attempt, Exception error)
        {
            return attempt < maxAttempts && transient(error);
        }

        public TimeSpan PauseAfter(int attempt)
        {
            if (first == longest)
            {
                return first;
            }

            var ticks = first.Ticks * Math.Pow(2, attempt - 1);
            return ticks >= longest.Ticks ? longest : TimeSpan.FromTicks((long)ticks);
        }
    }
}
