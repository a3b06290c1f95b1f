<?php
// The parser of the package php-parser: the functions of the files named on standard input, as JSON lines. The one
// argument is the package's autoload file.
//
// Which functions: functions and methods outside all functions, under a condition too; not the methods of anonymous
// classes.
declare(strict_types=1);

require $argv[1];

use PhpParser\Node;
use PhpParser\NodeTraverser;
use PhpParser\NodeVisitorAbstract;
use PhpParser\ParserFactory;

final class Functions extends NodeVisitorAbstract
{
    public function __construct(private string $path, private string $text)
    {
    }

    public function enterNode(Node $node)
    {
        if ($node instanceof Node\Stmt\Function_ || $node instanceof Node\Stmt\ClassMethod) {
            echo json_encode([
                'path' => $this->path,
                'name' => $node->name->toString(),
                'start_line' => 1 + substr_count($this->text, "\n", 0, $node->getStartFilePos()),
                'end_line' => 1 + substr_count($this->text, "\n", 0, $node->getEndFilePos()),
                'body' => $node->stmts !== null,
            ], JSON_INVALID_UTF8_SUBSTITUTE), "\n";
        }
        // Nothing inside functions, and no expression: an anonymous class is one.
        $function = $node instanceof Node\FunctionLike;
        return $function || $node instanceof Node\Expr ? NodeTraverser::DONT_TRAVERSE_CHILDREN : null;
    }
}

$attributes = ['startFilePos', 'endFilePos', 'startLine', 'endLine'];
$lexer = new PhpParser\Lexer\Emulative(['usedAttributes' => $attributes]);
$parser = (new ParserFactory())->create(ParserFactory::ONLY_PHP7, $lexer);
while (($line = fgets(STDIN)) !== false) {
    $path = rtrim($line, "\n");
    $text = file_get_contents($path);
    try {
        $tree = $parser->parse($text);
    } catch (PhpParser\Error $error) {
        echo json_encode(['path' => $path, 'failed' => $error->getMessage()]), "\n";
        continue;
    }
    echo json_encode(['path' => $path, 'parsed' => true]), "\n";
    $traverser = new NodeTraverser();
    $traverser->addVisitor(new Functions($path, $text));
    $traverser->traverse($tree);
}
