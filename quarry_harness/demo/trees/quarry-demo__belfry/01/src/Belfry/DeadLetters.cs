using System;
using System.Collections.Generic;

namespace Belfry
{
    /// <summary>What could not be delivered; the oldest goes when there is no room.</summary>
    public sealed class DeadLetters
    {
        private readonly Queue<Letter> letters = new Queue<Letter>();
        private readonly int capacity;

        public DeadLetters(int capacity)
        {
            this.capacity = capacity;
        }

        public event EventHandler<Letter> Dropped;

        public int Count
        {
            get
            {
                lock (letters)
                {
                    return letters.Count;
                }
            }
        }

        public void Add(object message, Exception error, int attempts)
        {
            Letter overflow = null;
            lock (letters)
            {
                if (letters.Count == capacity)
                {
                    overflow = letters.Dequeue();
                }

                letters.Enqueue(new Letter(message, error, attempts));
            }

            if (overflow != null)
            {
                Dropped?.Invoke(this, overflow);
            }
        }

        public int Replay(IEventBus bus)
        {
            Letter[] waiting;
            lock (letters)
            {
                waiting = letters.ToArray();
                letters.Clear();
            }

            foreach (var letter in waiting)
            {
                bus.Publish(letter.Message);
            }

            return waiting.Length;
        }

        public sealed class Letter
        {
            internal Letter(object message, Exception error, int attempts)
            {
                Message = message;
                Error = error;
                Attempts = attempts;
            }

            public object Message { get; }

            public Exception Error { get; }

            public int Attempts { get; }

            public override string ToString() => $"{Message.GetType().Name} after {Attempts} attempts: {Error.Message}";
        }
    }
}
