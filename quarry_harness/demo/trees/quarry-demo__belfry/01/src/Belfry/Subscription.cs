using System;
using System.Threading;
using System.Threading.Tasks;

namespace Belfry
{
    internal sealed class Subscription
    {
        private readonly Func<object, CancellationToken, Task> call;

        public Subscription(Type eventType, int priority, Func<object, CancellationToken, Task> call)
        {
            EventType = eventType;
            Priority = priority;
            this.call = call;
        }

        public Type EventType { get; }

        public int Priority { get; }

        public Task Invoke(object message, CancellationToken stop) => call(message, stop);
    }
}
