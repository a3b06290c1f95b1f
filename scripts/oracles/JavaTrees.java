import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.tree.Tree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.SourcePositions;
import com.sun.source.util.TreeScanner;
import com.sun.source.util.Trees;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/**
 * The JDK's compiler tree API: the functions of the files named on standard input, as JSON lines.
 *
 * <p>Which functions: methods and constructors of every type, wherever it stands; not the elements of annotations.
 */
public final class JavaTrees {
  private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

  private JavaTrees() {}

  public static void main(String[] arguments) throws IOException {
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    StandardJavaFileManager files = compiler.getStandardFileManager(null, null, StandardCharsets.UTF_8);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String path = input.readLine(); path != null; path = input.readLine()) {
      parse(compiler, files, path);
    }
    OUT.flush();
  }

  private static void parse(JavaCompiler compiler, StandardJavaFileManager files, String path) throws IOException {
    DiagnosticCollector<JavaFileObject> said = new DiagnosticCollector<>();
    List<String> options = List.of("-proc:none", "-Xlint:none");
    JavacTask task = (JavacTask) compiler.getTask(
        null, files, said, options, null, files.getJavaFileObjects(Path.of(path)));
    CompilationUnitTree unit = task.parse().iterator().next();
    for (Diagnostic<? extends JavaFileObject> one : said.getDiagnostics()) {
      if (one.getKind() == Diagnostic.Kind.ERROR) {
        OUT.println("{\"path\": " + quoted(path) + ", \"failed\": " + quoted(one.getMessage(null)) + "}");
        return;
      }
    }
    OUT.println("{\"path\": " + quoted(path) + ", \"parsed\": true}");
    String text = Files.readString(Path.of(path), StandardCharsets.UTF_8);
    new Scanner(path, text, unit, Trees.instance(task).getSourcePositions()).scan(unit, null);
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    text.chars().forEach(one -> {
      boolean plain = one >= ' ' && one != '"' && one != '\\';
      quoted.append(plain ? String.valueOf((char) one) : String.format("\\u%04x", one));
    });
    return quoted.append('"').toString();
  }

  private static final class Scanner extends TreeScanner<Void, Void> {
    private final String path;
    private final String text;
    private final CompilationUnitTree unit;
    private final SourcePositions positions;
    private final Deque<ClassTree> types = new ArrayDeque<>();

    Scanner(String path, String text, CompilationUnitTree unit, SourcePositions positions) {
      this.path = path;
      this.text = text;
      this.unit = unit;
      this.positions = positions;
    }

    @Override
    public Void visitClass(ClassTree node, Void nothing) {
      types.push(node);
      super.visitClass(node, nothing);
      types.pop();
      return null;
    }

    @Override
    public Void visitMethod(MethodTree node, Void nothing) {
      ClassTree type = types.element();
      if (type.getKind() != Tree.Kind.ANNOTATION_TYPE) {
        boolean constructor = node.getName().contentEquals("<init>");
        String name = constructor ? type.getSimpleName().toString() : node.getName().toString();
        int first = line(positions.getStartPosition(unit, node));
        int last = line(positions.getEndPosition(unit, node) - 1);
        OUT.println("{\"path\": " + quoted(path) + ", \"name\": " + quoted(name) + ", \"start_line\": " + first
            + ", \"end_line\": " + last + ", \"body\": " + (node.getBody() != null) + "}");
      }
      return super.visitMethod(node, nothing);
    }

    // Lines are counted by LF alone; the compiler counts a lone CR, too.
    private int line(long position) {
      return 1 + (int) text.substring(0, (int) position).chars().filter(one -> one == '\n').count();
    }
  }
}
