using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Belfry
{
    /// <summary>Delivers events to whoever subscribed to their type or to a base type of it.</summary>
    public sealed class EventBus : IEventBus, IDisposable
    {
        private readonly object gate = new object();
        private readonly Dictionary<Type, List<Subscription>> byType = new Dictionary<Type, List<Subscription>>();
        private readonly RetryPolicy retry;
        private readonly DeadLetters dead;
        private bool closed;

        public EventBus()
            : this(RetryPolicy.None, new DeadLetters(1000))
        {
        }

        public EventBus(RetryPolicy retry, DeadLetters dead)
        {
            this.retry = retry ?? throw new ArgumentNullException(nameof(retry));
            this.dead = dead ?? throw new ArgumentNullException(nameof(dead));
        }

        public IDisposable Subscribe<TEvent>(Action<TEvent> handler)
        {
            return Subscribe<TEvent>((message, stop) => { handler(message); return Task.CompletedTask; }, 0);
        }

        public IDisposable Subscribe<TEvent>(Func<TEvent, CancellationToken, Task> handler, int priority)
        {
            var subscription = new Subscription(typeof(TEvent), priority, (message, stop) => handler((TEvent)message, stop));
            lock (gate)
            {
                ThrowIfClosed();
                if (!byType.TryGetValue(typeof(TEvent), out var list))
                {
                    byType[typeof(TEvent)] = list = new List<Subscription>();
                }

                list.Add(subscription);
            }

            return new Handle(() => Remove(subscription));
        }

        public void Publish(object message)
        {
            PublishAsync(message, CancellationToken.None).GetAwaiter().GetResult();
        }

        public async Task PublishAsync(object message, CancellationToken stop)
        {
            foreach (var subscription in Matching(message.GetType()))
            {
                stop.ThrowIfCancellationRequested();
                await DeliverAsync(subscription, message, stop).ConfigureAwait(false);
            }
        }

        private async Task DeliverAsync(Subscription subscription, object message, CancellationToken stop)
        {
            for (var attempt = 1; ; attempt++)
            {
                try
                {
                    await subscription.Invoke(message, stop).ConfigureAwait(false);
                    return;
                }
                catch (OperationCanceledException) when (stop.IsCancellationRequested)
                {
                    throw;
                }
                catch (Exception error)
                {
                    if (!retry.ShouldRetry(attempt, error))
                    {
                        dead.Add(message, error, attempt);
                        return;
                    }
                }

                await Task.Delay(retry.PauseAfter(attempt), stop).ConfigureAwait(false);
            }
        }

        private IReadOnlyList<Subscription> Matching(Type type)
        {
            lock (gate)
            {
                ThrowIfClosed();
                return byType
                    .Where(pair => pair.Key.IsAssignableFrom(type))
                    .SelectMany(pair => pair.Value)
                    .OrderByDescending(subscription => subscription.Priority)
                    .ToList();
            }
        }

        private void Remove(Subscription subscription)
        {
            lock (gate)
            {
                if (byType.TryGetValue(subscription.EventType, out var list) && list.Remove(subscription) && list.Count == 0)
                {
                    byType.Remove(subscription.EventType);
                }
            }
        }

        private void ThrowIfClosed()
        {
            if (closed)
            {
                throw new ObjectDisposedException(nameof(EventBus));
            }
        }

        public void Dispose()
        {
            lock (gate)
            {
                closed = true;
                byType.Clear();
            }
        }

        private sealed class Handle : IDisposable
        {
            private Action undo;

            public Handle(Action undo)
            {
                this.undo = undo;
            }

            public void Dispose()
            {
                Interlocked.Exchange(ref undo, null)?.Invoke();
            }
        }
    }
}
