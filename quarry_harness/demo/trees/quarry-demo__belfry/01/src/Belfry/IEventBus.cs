using System;
using System.Threading;
using System.Threading.Tasks;

namespace Belfry;

public interface IEventBus
{
    IDisposable Subscribe<TEvent>(Action<TEvent> handler);

    IDisposable Subscribe<TEvent>(Func<TEvent, CancellationToken, Task> handler, int priority);

    void Publish(object message);

    Task PublishAsync(object message, CancellationToken stop);
}
