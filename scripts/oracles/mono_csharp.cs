// The parser of Mono's C# compiler (C# 7): the functions of the files named on standard input, as JSON lines.
//
// Which functions: methods and constructors of types, abstract ones and those of interfaces too. Their lines begin with
// the attributes.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using Mono.CSharp;

static class Program
{
    static readonly TextWriter Out =
        new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false)) { NewLine = "\n" };

    static void Main()
    {
        var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
        for (string path = input.ReadLine(); path != null; path = input.ReadLine())
            Parse(path);
        Out.Flush();
    }

    static void Parse(string path)
    {
        var printer = new Errors();
        var module = new ModuleContainer(new CompilerContext(new CompilerSettings { Unsafe = true }, printer));
        var source = new SourceFile(path, path, 1);
        Location.Initialize(new List<SourceFile> { source });
        var file = new CompilationSourceFile(module, source);
        module.AddTypeContainer(file);
        var bag = new LocationsBag();
        var session = new ParserSession { LocationsBag = bag };
        try
        {
            using (var stream = File.OpenRead(path))
            using (var reader = new SeekableStreamReader(stream, Encoding.UTF8))
            {
                var parser = new CSharpParser(reader, file, module.Compiler.Report, session);
                parser.parse();
            }
        }
        catch (Exception error)
        {
            printer.First = printer.First ?? error.Message;
        }
        if (printer.First != null)
        {
            Out.WriteLine("{{\"path\": {0}, \"failed\": {1}}}", Quoted(path), Quoted(printer.First));
            return;
        }
        Out.WriteLine("{{\"path\": {0}, \"parsed\": true}}", Quoted(path));
        file.Accept(new Functions(path, bag));
        SayConditional(path);
    }

    // The lines between #if and #endif: what of them the compiler sees depends on the symbols of a build.
    static void SayConditional(string path)
    {
        var opened = new Stack<int>();
        int row = 0;
        foreach (string line in File.ReadAllLines(path))
        {
            row++;
            string directive = line.Trim().StartsWith("#") ? line.Trim().Substring(1).Trim() : "";
            if (directive.StartsWith("if"))
                opened.Push(row);
            else if (directive.StartsWith("endif") && opened.Count > 0)
                Out.WriteLine("{{\"path\": {0}, \"hidden\": [{1}, {2}]}}", Quoted(path), opened.Pop(), row);
        }
    }

    static string Quoted(string text)
    {
        var quoted = new StringBuilder("\"");
        foreach (char one in text)
        {
            if (one < ' ' || one == '"' || one == '\\')
                quoted.AppendFormat("\\u{0:x4}", (int) one);
            else
                quoted.Append(one);
        }
        return quoted.Append('"').ToString();
    }

    sealed class Errors : ReportPrinter
    {
        public string First;

        public override void Print(AbstractMessage message, bool showFullPath)
        {
            if (!message.IsWarning)
                First = First ?? message.Location + ": " + message.Text;
        }
    }

    sealed class Functions : StructuralVisitor
    {
        readonly string path;
        readonly LocationsBag bag;

        public Functions(string path, LocationsBag bag)
        {
            this.path = path;
            this.bag = bag;
        }

        public override void Visit(Method one)
        {
            Say(one, one.MemberName.Name, one.TypeExpression, one.Block);
        }

        public override void Visit(Constructor one)
        {
            Say(one, one.MemberName.Name, null, one.Block);
        }

        void Say(MethodCore one, string name, FullNamedExpression type, ToplevelBlock block)
        {
            var starts = new List<Location> { one.Location };
            if (one.OptAttributes != null)
                starts.AddRange(one.OptAttributes.Attrs.Select(attribute => attribute.Location));
            if (type != null)
                starts.Add(type.StartLocation);
            var all = bag.GetMemberLocation(one);
            var last = block == null ? one.Location : block.EndLocation;
            if (all != null)
            {
                starts.AddRange(all.Modifiers.Select(modifier => modifier.Item2));
                foreach (var other in Enumerable.Range(0, all.Count).Select(index => all[index]))
                {
                    if (other.Row > last.Row)
                        last = other;
                }
            }
            int first = starts.Where(start => start.Row > 0).Min(start => start.Row);
            Out.WriteLine("{{\"path\": {0}, \"name\": {1}, \"start_line\": {2}, \"end_line\": {3}, \"body\": {4}}}",
                Quoted(path), Quoted(name), first, last.Row, block == null ? "false" : "true");
        }
    }
}
